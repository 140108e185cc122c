# tests/bench: programs that print tables. Nothing here passes or fails by a time.

# predictor
PREDICT_BENCH = tests/bench/predict-accuracy tests/bench/split-table tests/bench/loader-curve \
	tests/bench/cold-start tests/bench/online-demand tests/bench/predict-live
check_PROGRAMS += $(PREDICT_BENCH)
tests_bench_predict_accuracy_SOURCES = tests/bench/predict-accuracy.c tests/bench/baselines.c \
	tests/bench/baselines.h tests/bench/csv.c tests/bench/csv.h tests/bench/steps.c tests/bench/steps.h
tests_bench_predict_accuracy_LDADD = libadl_predictor.la
tests_bench_split_table_SOURCES = tests/bench/split-table.c tests/bench/csv.c tests/bench/csv.h
tests_bench_predict_live_SOURCES = tests/bench/predict-live.c
tests_bench_predict_live_LDADD = libadl_predictor.la libadl_common.la
tests_bench_loader_curve_SOURCES = tests/bench/loader-curve.c tests/bench/csv.c tests/bench/csv.h
tests_bench_loader_curve_LDADD = libadl_predictor.la
tests_bench_cold_start_SOURCES = tests/bench/cold-start.c tests/bench/csv.c tests/bench/csv.h
tests_bench_cold_start_LDADD = libadl_predictor.la
tests_bench_online_demand_SOURCES = tests/bench/online-demand.c tests/unit/predictor_sim.h
tests_bench_online_demand_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
tests_bench_online_demand_LDADD = libadl_predictor.la

# The controller under many agents.
check_PROGRAMS += tests/bench/ctld-agents
tests_bench_ctld_agents_SOURCES = tests/bench/ctld-agents.c tests/unit/rng.h
tests_bench_ctld_agents_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
tests_bench_ctld_agents_LDADD = libadl_common.la

# A step's start or end, to the last loader of a neighbour in its new place.
if HAVE_CMOCKA
check_PROGRAMS += tests/bench/event-bind
tests_bench_event_bind_SOURCES = tests/bench/event-bind.c tests/bench/bound_program.c \
	tests/bench/bound_program.h tests/unit/fake_agents.c tests/unit/fake_agents.h
tests_bench_event_bind_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank -I$(top_srcdir)/tests/unit
tests_bench_event_bind_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS)
tests_bench_event_bind_LDADD = libadl_spank.la libadl_common.la $(JSON_C_LIBS) $(MUNGE_LIBS) $(CMOCKA_LIBS)
endif

# The allocator: what a decision costs, and what it gains (docs/allocation.md).
check_PROGRAMS += tests/bench/allocate tests/bench/sweep
tests_bench_allocate_SOURCES = tests/bench/allocate.c tests/unit/alloc_cases.c tests/unit/alloc_cases.h
tests_bench_allocate_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/ctld -I$(top_srcdir)/tests/unit
tests_bench_allocate_LDADD = libadl_alloc.la libadl_common.la
tests_bench_sweep_SOURCES = tests/bench/sweep.c
tests_bench_sweep_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/ctld -I$(top_srcdir)/cli
tests_bench_sweep_LDADD = $(ADL_CLI_LIBS)
EXTRA_DIST += docs/allocation.md docs/allocation.svg

# Verdicts of real steps, and what makes their files slow.
EXTRA_DIST += tests/bench/verdict-accuracy tests/bench/slow-files.c tests/bench/agent-cost
