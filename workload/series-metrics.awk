# The four metrics of a series and their spread, as Markdown tables.
#
# Input: run.tsv files, tab-separated: policy repeat job model at begin end samples seconds rate busy
# ms-a-sample moves mean-cores; times in seconds since the first submission.
# Variables: order (policies, in the table's order), section (summary, jobs, own, speed, overview or tsv), title.
#
# A ratio T/T-even compares a job's rate in one run with its mean rate over all runs under even; so that
# policy itself has 1, with the spread of its repeats.

function note(list, value) { n[list]++; at[list, n[list]] = value }

function mean(list,    i, sum) {
    for (i = 1; i <= n[list]; i++) sum += at[list, i]
    return n[list] ? sum / n[list] : 0
}

function deviation(list,    i, m, sum) {
    if (n[list] < 2) return 0
    m = mean(list)
    for (i = 1; i <= n[list]; i++) sum += (at[list, i] - m) ^ 2
    return sqrt(sum / (n[list] - 1))
}

# The smallest value that at least 95 % of the list do not exceed.
function high(list,    i, j, k, v, sorted) {
    for (i = 1; i <= n[list]; i++) {
        v = at[list, i]
        for (j = i - 1; j >= 1 && sorted[j] > v; j--) sorted[j + 1] = sorted[j]
        sorted[j + 1] = v
    }
    k = int(0.95 * n[list])
    if (k < 0.95 * n[list]) k++
    return sorted[k]
}

function cell(list, decimals) { return sprintf("%." decimals "f ± %." decimals "f", mean(list), deviation(list)) }

function percent(list, base) { return mean(base) ? sprintf("%+.1f %%", 100 * (mean(list) / mean(base) - 1)) : "-" }

BEGIN { FS = "\t"; npolicies = split(order, policy, " ") }

{
    run = $1 SUBSEP $2
    if (!(run in seen_run)) { seen_run[run] = 1; nruns++; run_policy[nruns] = $1; run_repeat[nruns] = $2 }
    if (!($3 in seen_job)) { seen_job[$3] = 1; njobs++; job[njobs] = $3; job_model[$3] = $4 }
    rows++
    row_policy[rows] = $1; row_run[rows] = run; row_job[rows] = $3
    row_rate[rows] = $10; row_busy[rows] = $11; row_samples[rows] = $8
    row_completion[rows] = $7 - $5
    if ($7 > last[run]) last[run] = $7
    samples[run] += $8; moves[run] += $13; jobs_in[run]++
    note("rate" SUBSEP $1 SUBSEP $3, $10)
    note("ms" SUBSEP $1 SUBSEP $4, $12)
    note("cores" SUBSEP $1 SUBSEP $3, $14)
    note("overhead" SUBSEP $1, $7 - $6 - $9)
    if (!($4 in seen_model)) { seen_model[$4] = 1; nmodels++; model[nmodels] = $4 }
}

# Means over the jobs of each run, then one value a run for each policy.
function gather(    i, r, p) {
    for (i = 1; i <= rows; i++) {
        r = row_run[i]
        even = mean("rate" SUBSEP "even" SUBSEP row_job[i])
        own = mean("rate" SUBSEP "static" SUBSEP row_job[i])
        if (even) sum_even[r] += row_rate[i] / even
        if (own) sum_own[r] += row_rate[i] / own
        sum_busy[r] += row_busy[i]
        sum_completion[r] += row_completion[i]
        note("completion" SUBSEP r, row_completion[i])
    }
    for (i = 1; i <= nruns; i++) {
        p = run_policy[i]
        r = p SUBSEP run_repeat[i]
        note("aggregate" SUBSEP p, samples[r] / last[r])
        note("even" SUBSEP p, sum_even[r] / jobs_in[r])
        note("own" SUBSEP p, sum_own[r] / jobs_in[r])
        note("busy" SUBSEP p, 100 * sum_busy[r] / jobs_in[r])
        note("makespan" SUBSEP p, last[r])
        note("completion" SUBSEP p, sum_completion[r] / jobs_in[r])
        note("p95" SUBSEP p, high("completion" SUBSEP r))
        note("moves" SUBSEP p, moves[r])
    }
}

function summary(    i, p) {
    print "| policy | runs | samples/s | mean T/T-even | mean T/T-own | GPU-busy % | makespan s | mean completion s | 95 % completion s | moves |"
    print "|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= npolicies; i++) {
        p = policy[i]
        if (!n["makespan" SUBSEP p]) continue
        printf "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %.1f |\n", p, n["makespan" SUBSEP p],
            cell("aggregate" SUBSEP p, 2), cell("even" SUBSEP p, 3), cell("own" SUBSEP p, 3), cell("busy" SUBSEP p, 1),
            cell("makespan" SUBSEP p, 1), cell("completion" SUBSEP p, 1), cell("p95" SUBSEP p, 1), mean("moves" SUBSEP p)
    }
    print ""
    print "| gpu-busy (adloader) against | samples/s | GPU-busy | makespan | mean completion | 95 % completion |"
    print "|---|---|---|---|---|---|"
    for (i = 1; i <= npolicies; i++) {
        p = policy[i]
        if (p == "gpu-busy" || !n["makespan" SUBSEP p]) continue
        printf "| %s | %s | %s | %s | %s | %s |\n", p, percent("aggregate" SUBSEP "gpu-busy", "aggregate" SUBSEP p),
            percent("busy" SUBSEP "gpu-busy", "busy" SUBSEP p), percent("makespan" SUBSEP "gpu-busy", "makespan" SUBSEP p),
            percent("completion" SUBSEP "gpu-busy", "completion" SUBSEP p), percent("p95" SUBSEP "gpu-busy", "p95" SUBSEP p)
    }
}

function job_table(    i, j, p) {
    printf "| job | model |"
    for (i = 1; i <= npolicies; i++) printf " %s: samples/s | cores |", policy[i]
    printf " gpu-busy/static | gpu-busy/even |\n|---|---|"
    for (i = 1; i <= npolicies; i++) printf "---|---|"
    print "---|---|"
    for (j = 1; j <= njobs; j++) {
        printf "| %s | %s |", job[j], job_model[job[j]]
        for (i = 1; i <= npolicies; i++) {
            p = policy[i]
            printf " %s | %.1f |", cell("rate" SUBSEP p SUBSEP job[j], 2), mean("cores" SUBSEP p SUBSEP job[j])
        }
        printf " %s | %s |\n", ratio(job[j], "static"), ratio(job[j], "even")
    }
}

function ratio(name, base,    b) {
    b = mean("rate" SUBSEP base SUBSEP name)
    return b ? sprintf("%.3f", mean("rate" SUBSEP "gpu-busy" SUBSEP name) / b) : "-"
}

# Of a policy: by what share a rate of a job of that model differs from the job's mean, from repeat to repeat.
# Jobs of a model are taken together: a spread from three repeats alone says little.
function spread(p, m,    j, list, sum, degrees) {
    for (j = 1; j <= njobs; j++) {
        list = "rate" SUBSEP p SUBSEP job[j]
        if (job_model[job[j]] != m || n[list] < 2) continue
        sum += (n[list] - 1) * (deviation(list) / mean(list)) ^ 2
        degrees += n[list] - 1
    }
    return degrees ? sqrt(sum / degrees) : 0
}

# The standard error of the ratio of two means of so many rates each, under gpu-busy and static.
function error_of(m, with, without) {
    return sqrt(spread("gpu-busy", m) ^ 2 / with + spread("static", m) ^ 2 / without)
}

# Is a job slower than with its own cores?
function below_own(    i, j, m, g, s, r, sum, with, without, worst, slower, models) {
    for (i = 1; i <= nmodels; i++) {
        m = model[i]
        sum = with = without = 0
        for (j = 1; j <= njobs; j++) {
            g = "rate" SUBSEP "gpu-busy" SUBSEP job[j]; s = "rate" SUBSEP "static" SUBSEP job[j]
            if (job_model[job[j]] != m || !n[g] || !n[s]) continue
            r = mean(g) / mean(s)
            if (!worst || r < worst) { worst = r; least = job[j] }
            if (r - 1 < -2 * error_of(m, n[g], n[s]))
                slower = slower sprintf("%s %s (%+.1f %%)", slower ? "," : "", job[j], 100 * (r - 1))
            sum += r * n[g]; with += n[g]; without += n[s]
        }
        if (with) models = models sprintf("| %s | %.3f ± %.3f | %d |\n", m, sum / with, error_of(m, with, without), with)
    }
    if (!worst) return
    printf "| gpu-busy against own cores (static) | T/T-own, mean ± standard error | rates |\n|---|---|---|\n%s\n", models
    printf "The job that fares worst under gpu-busy, %s, has %.1f %% of the rate with its own cores (static). ", least, 100 * worst
    if (slower) print "Slower by more than two\nstandard errors:" slower "."
    else print "No job is slower\nby more than two standard errors."
}

# One row of a table of several series.
function overview(    j, r, worst, i, base, line) {
    line = "| " title " |"
    for (i = 1; i <= 2; i++) {
        base = i == 1 ? "static" : "even"
        line = line sprintf(" %s | %s | %s | %s |", percent("aggregate" SUBSEP "gpu-busy", "aggregate" SUBSEP base),
            percent("busy" SUBSEP "gpu-busy", "busy" SUBSEP base), percent("makespan" SUBSEP "gpu-busy", "makespan" SUBSEP base),
            percent("completion" SUBSEP "gpu-busy", "completion" SUBSEP base))
    }
    for (j = 1; j <= njobs; j++) {
        r = ratio(job[j], "static")
        if (r != "-" && (!worst || r < worst)) worst = r
    }
    printf "%s %s | %s |\n", line, cell("own" SUBSEP "gpu-busy", 3), worst ? worst : "-"
}

# CPU time of a sample as the jobs saw it: it grows when the machine itself gets slower.
function speed(    i, m, v, apart) {
    printf "| CPU ms a sample |"
    for (i = 1; i <= npolicies; i++) printf " %s |", policy[i]
    printf "\n|---|"
    for (i = 1; i <= npolicies; i++) printf "---|"
    print ""
    for (m = 1; m <= nmodels; m++) {
        printf "| %s |", model[m]
        for (i = 1; i <= npolicies; i++) printf " %s |", cell("ms" SUBSEP policy[i] SUBSEP model[m], 2)
        print ""
    }
    for (m = 1; m <= nmodels; m++)
        for (i = 1; i <= npolicies; i++) {
            v = mean("ms" SUBSEP policy[i] SUBSEP model[m])
            if (v && deviation("ms" SUBSEP policy[i] SUBSEP model[m]) / v > apart)
                apart = deviation("ms" SUBSEP policy[i] SUBSEP model[m]) / v
        }
    printf "\nFrom job to job and repeat to repeat the same work under the same policy took up to ± %.0f %% CPU time: so steady was\n", 100 * apart
    print "the machine. (Between policies: where a slow core is one by CPU bandwidth, a loader that seldom works rests less in"
    print "the middle of its work than one that always does, so its samples look cheaper the more cores it has.)"
    printf "\nFrom the start of a job's batch script to its end, so many seconds passed in which it did not train (srun,\nstart and end of the program):"
    for (i = 1; i <= npolicies; i++) printf "%s %s %s", (i > 1 ? "," : ""), policy[i], cell("overhead" SUBSEP policy[i], 2)
    print "."
}

function table(    i, p) {
    for (i = 1; i <= npolicies; i++) {
        p = policy[i]
        if (n["makespan" SUBSEP p])
            printf "%s\t%.6f\t%.6f\t%.6f\t%.6f\t%.6f\n", p, mean("aggregate" SUBSEP p), mean("even" SUBSEP p), mean("busy" SUBSEP p), mean("makespan" SUBSEP p), mean("completion" SUBSEP p)
    }
}

END {
    gather()
    if (section == "summary") summary()
    if (section == "jobs") job_table()
    if (section == "own") below_own()
    if (section == "speed") speed()
    if (section == "overview") overview()
    if (section == "tsv") table()
}
