/* Charts as SVG: see svg.h. */
#include "config.h"

#include "svg.h"

#include <math.h>
#include <stdarg.h>

#define CHART_WIDTH  620.0
#define CHART_HEIGHT 340.0
#define LEFT         64.0
#define RIGHT        150.0
#define TOP          36.0
#define BOTTOM       56.0
#define POINTS_MAX   1500u /* of a line; more are thinned */

/* Okabe and Ito's colours, which colour-blind readers tell apart. */
static const char *const colours[] = {"#0072b2", "#e69f00", "#009e73", "#d55e00",
                                      "#cc79a7", "#56b4e9", "#000000", "#999999"};
#define NCOLOURS (sizeof(colours) / sizeof(*colours))

struct frame {
    FILE *out;
    double left, top; /* of the plot's own area */
    double width, height;
    double x_min, x_max, y_min, y_max;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void put(struct frame *f, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    if (vfprintf(f->out, format, ap) < 0)
        f->failed = true;
    va_end(ap);
}

static void put_text(struct frame *f, double x, double y, const char *anchor, const char *text)
{
    put(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; text != NULL && *text != '\0'; text++) {
        if (*text == '<')
            put(f, "&lt;");
        else if (*text == '&')
            put(f, "&amp;");
        else
            put(f, "%c", *text >= ' ' && *text <= '~' ? *text : '?');
    }
    put(f, "</text>\n");
}

static double at_x(const struct frame *f, double x)
{
    return f->left + f->width * (x - f->x_min) / (f->x_max - f->x_min);
}

static double at_y(const struct frame *f, double y)
{
    return f->top + f->height * (1 - (y - f->y_min) / (f->y_max - f->y_min));
}

/* A round step that gives about five ticks. */
static double tick_step(double range)
{
    double raw = range / 5, power = pow(10, floor(log10(raw))), lead = raw / power;

    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static void find_range(const struct svg_chart *c, struct frame *f)
{
    f->x_min = f->y_min = INFINITY;
    f->x_max = f->y_max = -INFINITY;
    for (size_t s = 0; s < c->nseries; s++)
        for (size_t i = 0; i < c->series[s].n; i++) {
            double x = c->series[s].x != NULL ? c->series[s].x[i] : (double)i;

            f->x_min = fmin(f->x_min, x);
            f->x_max = fmax(f->x_max, x);
            f->y_min = fmin(f->y_min, c->series[s].y[i]);
            f->y_max = fmax(f->y_max, c->series[s].y[i]);
        }
    if (!isnan(c->base)) {
        f->y_min = fmin(f->y_min, c->base);
        f->y_max = fmax(f->y_max, c->base);
    }
    if (!(f->x_max > f->x_min))
        f->x_max = f->x_min + 1;
    if (!(f->y_max > f->y_min))
        f->y_max = f->y_min + 1;
    if (c->groups != NULL) {
        f->x_min -= 0.5;
        f->x_max = (c->nseries > 0 ? (double)c->series[0].n : 1) - 0.5;
    }
    f->y_max += 0.05 * (f->y_max - f->y_min);
}

static void put_axes(struct frame *f, const struct svg_chart *c)
{
    double step = tick_step(f->y_max - f->y_min);

    for (double y = ceil(f->y_min / step) * step; y <= f->y_max; y += step) {
        char text[32];

        snprintf(text, sizeof(text), "%g", fabs(y) < step / 1e6 ? 0 : y);
        put(f, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#ddd\"/>\n", f->left, at_y(f, y), f->width);
        put_text(f, f->left - 6, at_y(f, y) + 4, "end", text);
    }
    step = tick_step(f->x_max - f->x_min);
    for (double x = ceil(f->x_min / step) * step; c->groups == NULL && x <= f->x_max; x += step) {
        char text[32];

        snprintf(text, sizeof(text), "%g", fabs(x) < step / 1e6 ? 0 : x);
        put_text(f, at_x(f, x), f->top + f->height + 16, "middle", text);
    }
    for (size_t i = 0; c->groups != NULL && c->nseries > 0 && i < c->series[0].n; i++)
        put_text(f, at_x(f, (double)i), f->top + f->height + 16, "middle", c->groups[i]);
    if (!isnan(c->base))
        put(f, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#666\" stroke-dasharray=\"4 3\"/>\n", f->left,
            at_y(f, c->base), f->width);
    put(f, "<path d=\"M%.1f %.1fv%.1fh%.1f\" fill=\"none\" stroke=\"#333\"/>\n", f->left, f->top,
        f->height, f->width);
    put(f, "<g font-weight=\"bold\">");
    put_text(f, f->left, f->top - 14, "start", c->title);
    put(f, "</g>");
    put_text(f, f->left + f->width / 2, f->top + f->height + 38, "middle", c->x_label);
    put(f, "<g transform=\"rotate(-90 %.1f %.1f)\">", f->left - 48, f->top + f->height / 2);
    put_text(f, f->left - 48, f->top + f->height / 2, "middle", c->y_label);
    put(f, "</g>\n");
}

static void put_legend(struct frame *f, const struct svg_chart *c)
{
    for (size_t s = 0; s < c->nseries; s++) {
        double y = f->top + 8 + 17 * (double)s;

        put(f, "<path d=\"M%.1f %.1fh16\" stroke=\"%s\" stroke-width=\"4\"/>\n",
            f->left + f->width + 10, y, colours[s % NCOLOURS]);
        put_text(f, f->left + f->width + 30, y + 4, "start", c->series[s].name);
    }
}

static void put_line(struct frame *f, const struct svg_series *s, const char *colour)
{
    size_t stride = s->n / POINTS_MAX + 1;
    double last = 0;

    if (s->n == 0)
        return;
    put(f, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" d=\"", colour);
    for (size_t i = 0; i < s->n; i += stride) {
        double x = at_x(f, s->x[i]), y = at_y(f, s->y[i]);

        if (i > 0 && s->steps)
            put(f, "L%.1f %.1f", x, last);
        put(f, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x, y);
        last = y;
    }
    put(f, "\"/>\n");
}

static void put_bars(struct frame *f, const struct svg_chart *c)
{
    double each = f->width / (f->x_max - f->x_min) * 0.8 / (double)c->nseries;
    double base = at_y(f, isnan(c->base) ? f->y_min : c->base);

    for (size_t s = 0; s < c->nseries; s++)
        for (size_t i = 0; i < c->series[s].n; i++) {
            double x = at_x(f, (double)i) + each * ((double)s - (double)c->nseries / 2);
            double y = at_y(f, c->series[s].y[i]);

            put(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x,
                fmin(y, base), each * 0.9, fabs(base - y), colours[s % NCOLOURS]);
        }
}

static void put_chart(struct frame *f, const struct svg_chart *c)
{
    find_range(c, f);
    put_axes(f, c);
    if (c->groups != NULL)
        put_bars(f, c);
    for (size_t s = 0; c->groups == NULL && s < c->nseries; s++)
        put_line(f, &c->series[s], colours[s % NCOLOURS]);
    put_legend(f, c);
}

int svg_page(FILE *out, const struct svg_chart *charts, size_t ncharts, unsigned columns)
{
    struct frame f = {.out = out};
    size_t rows = (ncharts + columns - 1) / columns;

    put(&f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
        "fill=\"white\"/>\n",
        CHART_WIDTH * columns, CHART_HEIGHT * (double)rows);
    for (size_t i = 0; i < ncharts; i++) {
        f.left = CHART_WIDTH * (double)(i % columns) + LEFT;
        f.top = CHART_HEIGHT * (double)(i / columns) + TOP;
        f.width = CHART_WIDTH - LEFT - RIGHT;
        f.height = CHART_HEIGHT - TOP - BOTTOM;
        put_chart(&f, &charts[i]);
    }
    put(&f, "</svg>\n");
    return f.failed ? -1 : 0;
}
