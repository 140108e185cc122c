/* Synthesis of photograph-like pictures. */
#include "picture.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Colours are luma (0..255) and two chroma offsets around 0, as a JPEG file stores them. */
struct colour {
    float y, cb, cr;
};

struct scene {
    unsigned width, height;
    float *texture; /* luma texture, mean about 0, standard deviation about 1 */
    float *tint;    /* slow variation for chroma, about -1..1 */
    struct colour *pixel;
};

/* ---- sizes ------------------------------------------------------------------------------- */

static unsigned clamp_side(double side)
{
    if (side < PICTURE_SIDE_MIN)
        return PICTURE_SIDE_MIN;
    if (side > PICTURE_SIDE_MAX)
        return PICTURE_SIDE_MAX;
    return (unsigned)side;
}

void picture_draw_size(struct rng *rng, unsigned *width, unsigned *height)
{
    static const double aspects[] = {4.0 / 3, 4.0 / 3, 4.0 / 3, 4.0 / 3,
                                     3.0 / 2, 3.0 / 2, 1.0,     5.0 / 4};
    double aspect = aspects[rng_below(rng, sizeof aspects / sizeof aspects[0])];
    double side = 500.0;

    if (rng_unit(rng) > 0.66)
        side = 470.0 * exp(0.42 * rng_normal(rng));
    *width = clamp_side(side);
    *height = clamp_side(side / aspect);
    if (rng_unit(rng) < 0.25) {
        unsigned swap = *width;
        *width = *height;
        *height = swap;
    }
}

/* ---- noise fields ------------------------------------------------------------------------ */

/* Add one octave of value noise: random values on a lattice of cell pixels, smoothly blended. */
static int add_octave(struct rng *rng, float *field, unsigned width, unsigned height, unsigned cell,
                      float amplitude)
{
    size_t columns = width / cell + 2, rows = height / cell + 2;
    float *lattice = malloc(columns * rows * sizeof *lattice);

    if (lattice == NULL)
        return -1;
    for (size_t i = 0; i < columns * rows; i++)
        lattice[i] = amplitude * (float)rng_range(rng, -1.0, 1.0);
    for (unsigned y = 0; y < height; y++) {
        const float *upper = lattice + (y / cell) * columns, *lower = upper + columns;
        float fy = (float)(y % cell) / (float)cell;
        float *out = field + (size_t)y * width;

        fy = fy * fy * (3.0f - 2.0f * fy);
        for (unsigned x = 0, column = 0, inside = 0; x < width; x++) {
            float fx = (float)inside / (float)cell;
            float top, bottom;

            fx = fx * fx * (3.0f - 2.0f * fx);
            top = upper[column] + fx * (upper[column + 1] - upper[column]);
            bottom = lower[column] + fx * (lower[column + 1] - lower[column]);
            out[x] += top + fy * (bottom - top);
            if (++inside == cell) {
                inside = 0;
                column++;
            }
        }
    }
    free(lattice);
    return 0;
}

/* Octaves from coarse to fine; persistence is the ratio of the amplitudes of neighbours. */
static int add_fractal(struct rng *rng, float *field, unsigned width, unsigned height,
                       unsigned coarse, unsigned fine, float persistence)
{
    float amplitude = 1.0f;

    for (unsigned cell = coarse; cell >= fine; cell /= 2) {
        if (add_octave(rng, field, width, height, cell, amplitude) < 0)
            return -1;
        amplitude *= persistence;
    }
    return 0;
}

/* ---- the scene --------------------------------------------------------------------------- */

static struct colour random_colour(struct rng *rng)
{
    return (struct colour){.y = (float)rng_range(rng, 30, 225),
                           .cb = (float)(11.0 * rng_normal(rng)),
                           .cr = (float)(11.0 * rng_normal(rng))};
}

static struct colour blend(struct colour a, struct colour b, float t)
{
    return (struct colour){
        .y = a.y + t * (b.y - a.y), .cb = a.cb + t * (b.cb - a.cb), .cr = a.cr + t * (b.cr - a.cr)};
}

/* Light that changes slowly across the picture, with the textures laid over it. */
static void paint_background(struct rng *rng, struct scene *scene)
{
    struct colour from = random_colour(rng), to = random_colour(rng);
    double angle = rng_range(rng, 0.0, 6.283185307179586);
    float dx = (float)(cos(angle) / scene->width), dy = (float)(sin(angle) / scene->height);
    float contrast = (float)rng_range(rng, 6.0, 24.0), chroma = (float)rng_range(rng, 3.0, 14.0);

    for (unsigned y = 0; y < scene->height; y++) {
        for (unsigned x = 0; x < scene->width; x++) {
            size_t i = (size_t)y * scene->width + x;
            float t = 0.5f + 0.5f * ((float)x * dx + (float)y * dy);
            struct colour c = blend(from, to, t);

            c.y += contrast * scene->texture[i];
            c.cb += chroma * scene->tint[i];
            c.cr -= chroma * scene->tint[i];
            scene->pixel[i] = c;
        }
    }
}

/* An object, in front of those before it: an ellipse or a rotated box with a colour, a shading and
 * a surface of its own. */
struct object {
    float x, y, cosine, sine, half_width, half_height;
    bool box;
    struct colour colour;
    float shading, contrast, stripes, pitch;
};

/* Sizes of things in natural scenes fall with about the third power: few large, many small. */
static double random_size(struct rng *rng, double largest)
{
    return fmin(largest, 4.0 / sqrt(1.0 - rng_unit(rng)));
}

static struct object random_object(struct rng *rng, const struct scene *scene)
{
    double angle = rng_range(rng, 0.0, 3.141592653589793);
    double size = random_size(rng, (scene->width + scene->height) * 0.16);

    return (struct object){
        .x = (float)rng_range(rng, 0, scene->width),
        .y = (float)rng_range(rng, 0, scene->height),
        .cosine = (float)cos(angle),
        .sine = (float)sin(angle),
        .half_width = (float)(size * rng_range(rng, 0.5, 1.0)),
        .half_height = (float)(size * rng_range(rng, 0.15, 1.0)),
        .box = rng_unit(rng) < 0.5,
        .colour = random_colour(rng),
        .shading = (float)rng_range(rng, -40, 40),
        .contrast = (float)rng_range(rng, 2, 26),
        .stripes = rng_unit(rng) < 0.3 ? (float)rng_range(rng, 8, 45) : 0.0f,
        .pitch = (float)rng_range(rng, 4, 18),
    };
}

static float triangle_wave(float x)
{
    float phase = x - floorf(x);
    return 4.0f * fabsf(phase - 0.5f) - 1.0f;
}

static void paint_object(const struct object *object, struct scene *scene)
{
    float reach = object->half_width + object->half_height;
    float left = fmaxf(0.0f, object->x - reach), top = fmaxf(0.0f, object->y - reach);
    float right = fminf((float)scene->width, object->x + reach);
    float bottom = fminf((float)scene->height, object->y + reach);

    for (unsigned y = (unsigned)top; (float)y < bottom; y++) {
        for (unsigned x = (unsigned)left; (float)x < right; x++) {
            float dx = (float)x - object->x, dy = (float)y - object->y;
            float u = (dx * object->cosine + dy * object->sine) / object->half_width;
            float v = (dy * object->cosine - dx * object->sine) / object->half_height;
            size_t i = (size_t)y * scene->width + x;
            struct colour c = object->colour;

            if (object->box ? fabsf(u) > 1.0f || fabsf(v) > 1.0f : u * u + v * v > 1.0f)
                continue;
            c.y += object->shading * v + object->contrast * scene->texture[i];
            if (object->stripes > 0.0f)
                c.y += object->stripes * triangle_wave(u * object->half_width / object->pitch);
            c.cb += 6.0f * scene->tint[i];
            c.cr -= 6.0f * scene->tint[i];
            scene->pixel[i] = c;
        }
    }
}

static uint8_t to_byte(float value)
{
    if (value <= 0.0f)
        return 0;
    if (value >= 255.0f)
        return 255;
    return (uint8_t)(value + 0.5f);
}

/* Develop the scene: sensor noise, then RGB by the JFIF conversion. */
static void develop(struct rng *rng, const struct scene *scene, uint8_t *rgb)
{
    float grain = (float)rng_range(rng, 0.8, 5.0);
    size_t count = (size_t)scene->width * scene->height;

    for (size_t i = 0; i < count; i++) {
        struct colour c = scene->pixel[i];
        /* four bytes of one draw, summed: near enough to normal for noise, and cheap */
        uint64_t bits = rng_u64(rng);
        int luma = (int)(bits & 255) + (int)(bits >> 8 & 255) + (int)(bits >> 16 & 255) - 382;
        int blue = (int)(bits >> 24 & 255) + (int)(bits >> 32 & 255) - 255;
        int red = (int)(bits >> 40 & 255) + (int)(bits >> 48 & 255) - 255;
        float y = c.y + grain * (float)luma / 128.0f;
        float cb = c.cb + 0.6f * grain * (float)blue / 104.0f;
        float cr = c.cr + 0.6f * grain * (float)red / 104.0f;

        rgb[3 * i] = to_byte(y + 1.402f * cr);
        rgb[3 * i + 1] = to_byte(y - 0.344136f * cb - 0.714136f * cr);
        rgb[3 * i + 2] = to_byte(y + 1.772f * cb);
    }
}

static void scene_free(struct scene *scene)
{
    free(scene->texture);
    free(scene->tint);
    free(scene->pixel);
}

static int scene_paint(struct rng *rng, struct scene *scene)
{
    float persistence = (float)rng_range(rng, 0.7, 0.95);
    unsigned objects = (unsigned)(scene->width * scene->height * rng_range(rng, 0.0005, 0.005));

    if (add_fractal(rng, scene->texture, scene->width, scene->height, 128, 2, persistence) < 0 ||
        add_fractal(rng, scene->tint, scene->width, scene->height, 128, 16, 0.5f) < 0)
        return -1;
    paint_background(rng, scene);
    for (unsigned i = 0; i < objects; i++) {
        struct object object = random_object(rng, scene);
        paint_object(&object, scene);
    }
    return 0;
}

int picture_paint(struct rng *rng, unsigned width, unsigned height, struct picture *picture)
{
    size_t count = (size_t)width * height;
    struct scene scene = {.width = width, .height = height};
    int rc = -1;

    picture->width = width;
    picture->height = height;
    picture->rgb = malloc(count * 3);
    scene.texture = calloc(count, sizeof *scene.texture);
    scene.tint = calloc(count, sizeof *scene.tint);
    scene.pixel = malloc(count * sizeof *scene.pixel);
    if (picture->rgb != NULL && scene.texture != NULL && scene.tint != NULL &&
        scene.pixel != NULL && scene_paint(rng, &scene) == 0) {
        develop(rng, &scene, picture->rgb);
        rc = 0;
    }
    scene_free(&scene);
    if (rc < 0)
        picture_free(picture);
    return rc;
}

void picture_free(struct picture *picture)
{
    free(picture->rgb);
    picture->rgb = NULL;
}
