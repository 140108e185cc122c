/* See track.h. */
#include "track.h"

#include <math.h>

#define SLACK     0.5 /* deviations below half a standard deviation count as none */
#define STEP_MAX  3.0 /* one report alone, however far off, is no shift */
#define THRESHOLD 5.0
#define FLOOR_REL 0.05 /* standard deviation at least this share of the mean */
#define START_VAR 0.09 /* relative, before anything is known */

void pred_track_restart(struct pred_track *track)
{
    float variance = track->variance;

    *track = (struct pred_track){.variance = variance};
}

static double deviation(const struct pred_track *track, double value, double floor)
{
    double least = fmax(FLOOR_REL * fabs((double)track->mean), fmax(floor, 1e-30));
    double sd = fmax(sqrt((double)track->variance), least);

    return fmax(-STEP_MAX, fmin(STEP_MAX, (value - (double)track->mean) / sd));
}

/* Bursts need a longer one than noise does, up to twice as long. */
static double window(const struct pred_track *track)
{
    double mean = (double)track->mean;
    double burst = mean > 0 ? 2 * (double)track->variance / (mean * mean) : 0;

    return PRED_TRACK_SECONDS * (1 + fmin(1, burst));
}

/* One of the two sums; side is 1 up, -1 down. Returns whether it passed its threshold. */
static bool collect(float *sum, float *values, float *span, double step, double value,
                    double seconds)
{
    double next = (double)*sum + step - SLACK;

    if (!(next > 0)) {
        *sum = *values = *span = 0;
        return false;
    }
    *sum = (float)next;
    *values = (float)((double)*values + value * seconds);
    *span = (float)((double)*span + seconds);
    return next > THRESHOLD;
}

static void settle_at(struct pred_track *track, float values, float span)
{
    track->mean = values / span;
    track->seconds = span;
    track->up = track->up_sum = track->up_seconds = 0;
    track->down = track->down_sum = track->down_seconds = 0;
}

bool pred_track_update(struct pred_track *track, double value, double seconds, double floor)
{
    double known = (double)track->seconds, weight, off;
    double z;

    if (!(known > 0)) {
        track->mean = (float)value;
        track->seconds = (float)seconds;
        if (!(track->variance > 0))
            track->variance = (float)(START_VAR * value * value);
        return false;
    }
    z = deviation(track, value, floor);
    weight = fmax(seconds / (known + seconds), 1 - exp(-seconds / window(track)));
    off = value - (double)track->mean;
    track->mean = (float)((double)track->mean + weight * off);
    track->variance = (float)((1 - weight) * ((double)track->variance + weight * off * off));
    track->seconds = (float)fmin(known + seconds, 4 * PRED_TRACK_SECONDS);
    if (collect(&track->up, &track->up_sum, &track->up_seconds, z, value, seconds)) {
        settle_at(track, track->up_sum, track->up_seconds);
        return true;
    }
    if (collect(&track->down, &track->down_sum, &track->down_seconds, -z, value, seconds)) {
        settle_at(track, track->down_sum, track->down_seconds);
        return true;
    }
    return false;
}
