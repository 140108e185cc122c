/* Filling up what a choice problem's rows have left, greedily. */
#include "config.h"

#include "alloc_choice.h"

#include <math.h>
#include <stdlib.h>

/* The best rise of one item: value for the price, among levels that fit. 0 if none gains. */
static double best_rise(const struct choice_item *item, const double *prices,
                        const double *room_left, unsigned *level)
{
    const double *from = choice_cost(item, item->level);
    double best = 0;

    for (unsigned l = item->level + 1; l < item->nlevels; l++) {
        const double *to = choice_cost(item, l);
        double gain = item->value[l] - item->value[item->level], price = 1e-12;
        bool fits = true;

        for (unsigned r = 0; r < item->nrows; r++) {
            double step = to[r] - from[r], left = room_left[item->row[r]];

            if (step <= 0)
                continue;
            fits = fits && step <= left;
            price += prices != NULL ? prices[item->row[r]] * step : step / fmax(left, 1e-300);
        }
        if (!fits)
            break; /* costs never fall */
        if (gain / price > best) {
            best = gain / price;
            *level = l;
        }
    }
    return best;
}

static void set_level(struct choice_item *item, unsigned level, double *room_left)
{
    const double *from = choice_cost(item, item->level), *to = choice_cost(item, level);

    for (unsigned r = 0; r < item->nrows; r++)
        room_left[item->row[r]] -= to[r] - from[r];
    item->level = level;
}

/* An item's best rise as it was when last looked at. Room only shrinks while filling, so that it
 * can only have become worse: the best of the heap, looked at again and still the best, is the
 * best. */
struct rise {
    double rate;
    unsigned item, level;
};

static bool above(const struct rise *a, const struct rise *b)
{
    return a->rate > b->rate || (a->rate >= b->rate && a->item < b->item);
}

static void sift(struct rise *heap, size_t n, size_t i)
{
    for (;;) {
        size_t top = i;

        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (above(&heap[child], &heap[top]))
                top = child;
        if (top == i)
            return;
        struct rise swap = heap[i];
        heap[i] = heap[top];
        heap[top] = swap;
        i = top;
    }
}

/* Look at the item on top again; true if it could still rise as it said. */
static bool look_again(const struct choice *choice, const double *prices, const double *room_left,
                       struct rise *rise, double *work)
{
    const struct choice_item *item = &choice->items[rise->item];
    double was = rise->rate;

    rise->rate = best_rise(item, prices, room_left, &rise->level);
    *work += (item->nlevels - item->level) * (item->nrows + 1.0);
    return rise->rate >= was;
}

static size_t heap_of_rises(const struct choice *choice, const double *prices,
                            const double *room_left, struct rise *heap, double *work)
{
    size_t n = 0;

    for (size_t i = 0; i < choice->nitems; i++) {
        heap[n] = (struct rise){0, (unsigned)i, 0};
        (void)look_again(choice, prices, room_left, &heap[n], work);
        n += heap[n].rate > 0;
    }
    for (size_t i = n / 2; i-- > 0;)
        sift(heap, n, i);
    return n;
}

double choice_fill(struct choice *choice, const double *prices, double *room_left)
{
    struct rise *heap = calloc(choice->nitems + 1, sizeof(*heap));
    double work = 0;
    size_t n;

    if (heap == NULL)
        return 0; /* what is there is feasible, if not as good */
    n = heap_of_rises(choice, prices, room_left, heap, &work);
    while (n > 0) {
        bool sure = look_again(choice, prices, room_left, &heap[0], &work);

        if (sure && heap[0].rate > 0) {
            set_level(&choice->items[heap[0].item], heap[0].level, room_left);
            heap[0].rate = INFINITY; /* to be looked at once more before anything is believed */
            (void)look_again(choice, prices, room_left, &heap[0], &work);
        }
        if (heap[0].rate <= 0)
            heap[0] = heap[--n];
        sift(heap, n, 0);
    }
    free(heap);
    return work;
}
