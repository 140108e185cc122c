/* From targets to assignments, shrink before grow. See reconcile.h for the rule. */
#include "config.h"

#include "reconcile.h"

void recon_place_free(struct recon_place *place)
{
    cpus_free(&place->cpus);
    place->own = false;
}

void recon_member_free(struct recon_member *member)
{
    cpus_free(&member->loader);
    cpus_free(&member->held);
    recon_place_free(&member->target);
    recon_place_free(&member->sent);
}

bool recon_place_equal(const struct recon_place *a, const struct recon_place *b)
{
    return a->own == b->own && cpus_equal(&a->cpus, &b->cpus);
}

int recon_place_copy(struct recon_place *to, const struct recon_place *from)
{
    if (cpus_copy(&to->cpus, &from->cpus) < 0)
        return -1;
    to->own = from->own;
    return 0;
}

int recon_begin(struct recon_member *member, bool own, const struct cpus *held)
{
    const struct cpus *in_force = own ? &member->loader : held;

    if (cpus_copy(&member->target.cpus, in_force) < 0 ||
        cpus_copy(&member->sent.cpus, in_force) < 0)
        return -1;
    if (own)
        cpus_clear_all(&member->held);
    else if (cpus_copy(&member->held, held) < 0)
        return -1;
    member->target.own = member->sent.own = member->held_own = own;
    member->seq = 0;
    member->ever_sent = false;
    member->in_flight = false;
    member->overdue = false;
    member->gone = false;
    return 0;
}

int recon_occupied(const struct recon_member *member, struct cpus *out)
{
    if (cpus_copy(out, &member->held) < 0)
        return -1;
    return member->held_own ? cpus_or(out, &member->loader) : 0;
}

/* twice |= once & set; once |= set */
static int count_set(struct cpus *once, struct cpus *twice, const struct cpus *set)
{
    if (cpus_intersects(once, set)) {
        struct cpus both = CPUS_EMPTY;
        int rc = cpus_copy(&both, set);

        if (rc == 0) {
            cpus_and(&both, once);
            rc = cpus_or(twice, &both);
        }
        cpus_free(&both);
        if (rc < 0)
            return -1;
    }
    return cpus_or(once, set);
}

int recon_view_make(struct recon_view *view, struct recon_member *const *members, size_t nmembers)
{
    struct cpus set = CPUS_EMPTY;
    int rc = 0;

    *view = (struct recon_view){CPUS_EMPTY, CPUS_EMPTY, CPUS_EMPTY, CPUS_EMPTY};
    for (size_t i = 0; i < nmembers && rc == 0; i++) {
        const struct recon_member *m = members[i];

        rc = recon_occupied(m, &set);
        if (rc == 0)
            rc = count_set(&view->once, &view->twice, &set);
        if (rc == 0 && !m->overdue && !m->gone)
            rc = count_set(&view->fresh_once, &view->fresh_twice, &set);
    }
    cpus_free(&set);
    if (rc < 0)
        recon_view_free(view);
    return rc;
}

void recon_view_free(struct recon_view *view)
{
    cpus_free(&view->once);
    cpus_free(&view->twice);
    cpus_free(&view->fresh_once);
    cpus_free(&view->fresh_twice);
}

/* What others than mine occupy, out of the counts. */
static int others(const struct cpus *once, const struct cpus *twice, const struct cpus *mine,
                  struct cpus *out)
{
    if (cpus_copy(out, once) < 0)
        return -1;
    cpus_andnot(out, mine);
    return cpus_or(out, twice);
}

/* CPUs that the member must not be given yet. */
static int blocked_for(const struct recon_view *view, const struct recon_member *member,
                       struct cpus *blocked)
{
    struct cpus mine = CPUS_EMPTY, fresh = CPUS_EMPTY, none = CPUS_EMPTY;
    bool counted = !member->overdue && !member->gone;
    int rc = recon_occupied(member, &mine);

    if (rc == 0)
        rc = others(&view->once, &view->twice, &mine, blocked);
    /* Its own CPUs wait only for those who still answer. */
    if (rc == 0)
        rc = others(&view->fresh_once, &view->fresh_twice, counted ? &mine : &none, &fresh);
    if (rc == 0) {
        cpus_and(&fresh, &member->loader);
        cpus_andnot(blocked, &member->loader);
        rc = cpus_or(blocked, &fresh);
    }
    cpus_free(&mine);
    cpus_free(&fresh);
    return rc;
}

int recon_next(const struct recon_view *view, const struct recon_member *member,
               struct recon_place *next)
{
    struct cpus blocked = CPUS_EMPTY;
    int rc = blocked_for(view, member, &blocked);

    if (rc == 0)
        rc = recon_place_copy(next, &member->target);
    if (rc == 0 && cpus_intersects(&next->cpus, &blocked)) {
        cpus_andnot(&next->cpus, &blocked);
        next->own = false;
    }
    cpus_free(&blocked);
    return rc;
}

int recon_sent(struct recon_member *member, const struct recon_place *next, uint64_t seq,
               uint64_t now_ms)
{
    if (next->own)
        member->held_own = true;
    else if (cpus_or(&member->held, &next->cpus) < 0)
        return -1;
    if (recon_place_copy(&member->sent, next) < 0)
        return -1;
    member->seq = seq;
    member->sent_ms = now_ms;
    member->ever_sent = true;
    member->in_flight = true;
    return 0;
}

bool recon_ack(struct recon_member *member, uint64_t seq)
{
    if (!member->in_flight || seq != member->seq)
        return false;
    member->in_flight = false;
    member->overdue = false;
    if (member->sent.own) {
        member->held_own = true;
        cpus_clear_all(&member->held);
    } else if (cpus_copy(&member->held, &member->sent.cpus) == 0) {
        member->held_own = false;
    } /* else out of memory: it keeps counting as holding more, which is safe */
    return true;
}
