/* Warm-up, then one of three ways down. */
#include "train/schedule.h"

#include <math.h>

#define PI 3.14159265358979323846

struct mt_schedule mt_schedule_make(enum mt_schedule_kind kind, uint64_t steps, double warmup,
                                    double final_share)
{
    double rising = warmup < 1.0 ? ceil(warmup * (double)steps) : floor(warmup);
    if (!(rising > 0.0)) rising = 0.0;
    if (rising > (double)steps) rising = (double)steps;
    return (struct mt_schedule){
        .kind = kind, .steps = steps, .warmup = (uint64_t)rising, .final_share = final_share};
}

/* How much is left at `progress` of the way from the peak to the end, from 1 to 0. */
static double left(enum mt_schedule_kind kind, double progress)
{
    switch (kind) {
    case MT_SCHEDULE_COSINE: return fmax(0.0, 0.5 * (1.0 + cos(PI * progress)));
    case MT_SCHEDULE_LINEAR: return fmax(0.0, 1.0 - progress);
    case MT_SCHEDULE_CONSTANT: return 1.0;
    }
    return 1.0;
}

double mt_schedule_share(const struct mt_schedule *schedule, uint64_t step)
{
    if (step < schedule->warmup) return (double)step / (double)schedule->warmup;
    uint64_t way = schedule->steps > schedule->warmup ? schedule->steps - schedule->warmup : 1;
    double progress = (double)(step - schedule->warmup) / (double)way;
    double floor_share = schedule->final_share;
    return floor_share + (1.0 - floor_share) * left(schedule->kind, progress);
}
