/* See curveout.h. */
#include "config.h"

#include "curveout.h"

#include "table.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>

static double share(const struct pred_curve *c, double rate)
{
    return rate / c->gpu_rate;
}

unsigned curve_knee(const struct pred_curve *c)
{
    double first = c->ncores > 0 ? c->rate[1] - c->rate[0] : 0;

    return pred_curve_knee(c, fmin(0.02, 0.25 * share(c, first)));
}

static int decimals(const struct pred_curve *c)
{
    return c->gpu_rate < 100 ? 2 : c->gpu_rate < 1000 ? 1 : 0;
}

/* Past the knee only every so many rows, the last one always. */
static bool worth_a_row(const struct pred_curve *c, unsigned cores, unsigned knee)
{
    unsigned stride = c->ncores / 32 + 1;

    return cores <= 16 || cores == c->ncores || (cores <= knee + 2 && cores + 4 >= knee) ||
           cores % stride == 0;
}

int curve_print(const struct pred_curve *c, FILE *out)
{
    static const struct table_column columns[] = {{"cores", true},    {"rate", true},
                                                  {"low", true},      {"high", true},
                                                  {"GPU busy", true}, {"limited by", false}};
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
    unsigned knee = curve_knee(c);
    int rc;

    for (unsigned i = 0; i <= c->ncores; i++) {
        if (!worth_a_row(c, i, knee))
            continue;
        table_cellf(table, "%u%s", i, i == knee ? " *" : "");
        table_number(table, c->rate[i], decimals(c));
        table_number(table, c->low[i], decimals(c));
        table_number(table, c->high[i], decimals(c));
        table_cellf(table, "%.0f %%", 100 * share(c, c->rate[i]));
        table_cell(table, pred_limit_name((enum pred_limit)c->limit[i]));
    }
    rc = table_print(table, out);
    table_free(table);
    fprintf(out, "\n* more than %u loader core%s would gain little.\n", knee, knee == 1 ? "" : "s");
    fprintf(out, "demand %.1f cores (+- %.0f %%); at most %.*f %s; from %s numbers.\n", c->demand,
            100 * fmin(c->demand_rel_sd, 9.99), decimals(c), c->gpu_rate,
            c->relative ? "times what one loader core delivers" : "samples/s",
            c->source == PRED_UNKNOWN ? "unknown" : pred_source_name(c->source));
    return rc;
}

static void put(struct json_object *object, const char *key, struct json_object *value)
{
    if (value != NULL && json_object_object_add(object, key, value) != 0)
        json_object_put(value);
}

static void put_number(struct json_object *object, const char *key, double value)
{
    struct json_object *number = isfinite(value) ? json_object_new_double(value) : NULL;

    if (json_object_object_add(object, key, number) != 0) /* unknown is null */
        json_object_put(number);
}

/* A rate, with its unit behind the key. */
static void put_rate(struct json_object *object, const struct pred_curve *c, const char *key,
                     double value)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%s_%s", key, c->relative ? "core_loads" : "samples_per_s");
    put_number(object, name, value);
}

static struct json_object *row_json(const struct pred_curve *c, unsigned i)
{
    struct json_object *row = json_object_new_object();

    if (row == NULL)
        return NULL;
    put(row, "cores", json_object_new_int((int)i));
    put_rate(row, c, "rate", c->rate[i]);
    put_rate(row, c, "low", c->low[i]);
    put_rate(row, c, "high", c->high[i]);
    put_number(row, "gpu_busy_share", share(c, c->rate[i]));
    put(row, "limit", json_object_new_string(pred_limit_name((enum pred_limit)c->limit[i])));
    return row;
}

struct json_object *curve_json(const struct pred_curve *c)
{
    struct json_object *object = json_object_new_object(), *rows = json_object_new_array();

    if (object == NULL || rows == NULL) {
        json_object_put(object);
        json_object_put(rows);
        return NULL;
    }
    put(object, "unit", json_object_new_string(c->relative ? "relative" : "samples/s"));
    put_rate(object, c, "gpu_rate", c->gpu_rate);
    put_number(object, "demand_cores", c->demand);
    put_number(object, "demand_relative_sd", c->demand_rel_sd);
    put(object, "knee_cores", json_object_new_int((int)curve_knee(c)));
    put(object, "source", json_object_new_string(pred_source_name(c->source)));
    for (unsigned i = 0; i <= c->ncores; i++) {
        struct json_object *row = row_json(c, i);

        if (row == NULL || json_object_array_add(rows, row) != 0)
            json_object_put(row);
    }
    put(object, "curve", rows);
    return object;
}

/* ---- SVG
 * ------------------------------------------------------------------------------------------ */

#define WIDTH  720.0
#define HEIGHT 440.0
#define LEFT   70.0
#define RIGHT  20.0
#define TOP    48.0
#define BOTTOM 52.0

struct picture {
    FILE *out;
    double cores, rate; /* at the right and upper end of the axes */
};

static double x_of(const struct picture *p, double cores)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * cores / p->cores;
}

static double y_of(const struct picture *p, double rate)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * fmin(rate / p->rate, 1);
}

/* 1, 2 or 5 times a power of ten, so that at most about eight steps fill the span. */
static double tick_step(double span)
{
    double step = pow(10, floor(log10(span / 8)));

    while (span / step > 8)
        step *= span / step > 20 ? 5 : span / step > 16 ? 2.5 : 2;
    return step;
}

static void print_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '"')
            fputs("&quot;", out);
        else
            fputc((unsigned char)*text >= ' ' && (unsigned char)*text < 127 ? *text : '?', out);
    }
}

static void draw_axes(const struct picture *p, const char *unit)
{
    double step = fmax(1, tick_step(p->cores));

    fprintf(p->out,
            "<g stroke=\"#888\" fill=\"none\"><path d=\"M%.1f %.1fV%.1fH%.1f\"/></g>\n"
            "<g font-size=\"12\" fill=\"#333\" text-anchor=\"middle\">\n",
            LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (double c = 0; c <= p->cores + 1e-9; c += step)
        fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\">%.0f</text>\n", x_of(p, c),
                HEIGHT - BOTTOM + 18, c);
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\">loader cores</text></g>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
    step = tick_step(p->rate);
    fprintf(p->out, "<g font-size=\"12\" fill=\"#333\" text-anchor=\"end\">\n");
    for (double r = 0; r <= p->rate * (1 + 1e-9); r += step)
        fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\">%g</text>\n", LEFT - 8, y_of(p, r) + 4, r);
    fprintf(p->out, "</g>\n<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\" fill=\"#333\">%s</text>\n",
            LEFT - 40, TOP - 10, unit);
}

static void draw_band(const struct picture *p, const struct pred_curve *c)
{
    fprintf(p->out, "<polygon fill=\"#9ec5e8\" fill-opacity=\"0.5\" points=\"");
    for (unsigned i = 0; i <= c->ncores; i++)
        fprintf(p->out, "%.1f,%.1f ", x_of(p, i), y_of(p, c->high[i]));
    for (unsigned i = c->ncores + 1; i-- > 0;)
        fprintf(p->out, "%.1f,%.1f ", x_of(p, i), y_of(p, c->low[i]));
    fprintf(p->out,
            "\"/>\n<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\" points=\"");
    for (unsigned i = 0; i <= c->ncores; i++)
        fprintf(p->out, "%.1f,%.1f ", x_of(p, i), y_of(p, c->rate[i]));
    fprintf(p->out, "\"/>\n");
}

static void draw_marks(const struct picture *p, const struct pred_curve *c)
{
    fprintf(p->out,
            "<g stroke=\"#b03a2e\" stroke-dasharray=\"6 4\" fill=\"none\"><path d=\"M%.1f "
            "%.1fH%.1f\"/>",
            LEFT, y_of(p, c->gpu_rate), WIDTH - RIGHT);
    if (c->demand <= p->cores)
        fprintf(p->out, "<path d=\"M%.1f %.1fV%.1f\"/>", x_of(p, c->demand), TOP, HEIGHT - BOTTOM);
    fprintf(p->out,
            "</g>\n<g font-size=\"12\" fill=\"#b03a2e\"><text x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"end\">"
            "GPU when data is never late</text>",
            WIDTH - RIGHT, y_of(p, c->gpu_rate) - 5);
    if (c->demand <= p->cores)
        fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\">demand %.1f</text>", x_of(p, c->demand) + 4,
                HEIGHT - BOTTOM - 8, c->demand);
    fprintf(p->out, "</g>\n");
}

int curve_svg(const struct pred_curve *c, const char *title, FILE *out)
{
    struct picture p = {out, c->ncores > 0 ? c->ncores : 1, 1.15 * c->gpu_rate};

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 "
            "0 %.0f %.0f\" "
            "font-family=\"sans-serif\">\n<title>",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    print_escaped(out, title);
    fprintf(out,
            "</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%.1f\" "
            "y=\"20\" font-size=\"15\">",
            LEFT);
    print_escaped(out, title);
    fprintf(out, "</text>\n");
    draw_axes(&p, c->relative ? "x one core" : "samples/s");
    draw_band(&p, c);
    draw_marks(&p, c);
    fprintf(out, "</svg>\n");
    return ferror(out) ? -1 : 0;
}
