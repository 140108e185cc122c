# tests/bench: programs that print tables. Nothing here passes or fails by a time.

# predictor
PREDICT_BENCH = tests/bench/predict-accuracy tests/bench/split-table
check_PROGRAMS += $(PREDICT_BENCH)
tests_bench_predict_accuracy_SOURCES = tests/bench/predict-accuracy.c tests/bench/baselines.c \
	tests/bench/baselines.h tests/bench/csv.c tests/bench/csv.h tests/bench/steps.c tests/bench/steps.h
tests_bench_predict_accuracy_LDADD = libadl_predictor.la
tests_bench_split_table_SOURCES = tests/bench/split-table.c tests/bench/csv.c tests/bench/csv.h
