# tests/fuzz/: one target for each kind of input from outside. `make check` runs each over the same
# mutated inputs; `make fuzz` (clang) builds the same targets with libFuzzer to run on and on:
#     mkdir corpus && make tests/fuzz/fuzz_frames fuzz-frames
#     tests/fuzz/fuzz_frames --seeds corpus && ./fuzz-frames -max_total_time=600 corpus
FUZZ_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
FUZZ_DRIVER = tests/fuzz/driver.c tests/fuzz/fuzz.h tests/unit/rng.h

check_PROGRAMS += tests/fuzz/fuzz_frames tests/fuzz/fuzz_hints tests/fuzz/fuzz_cpus tests/fuzz/fuzz_conf
TESTS += tests/fuzz/fuzz_frames tests/fuzz/fuzz_hints tests/fuzz/fuzz_cpus tests/fuzz/fuzz_conf
tests_fuzz_fuzz_frames_SOURCES = tests/fuzz/fuzz_frames.c tests/unit/msg_samples.c tests/unit/msg_samples.h $(FUZZ_DRIVER)
tests_fuzz_fuzz_frames_CPPFLAGS = $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_frames_LDADD = libadl_common.la
tests_fuzz_fuzz_hints_SOURCES = tests/fuzz/fuzz_hints.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_hints_CPPFLAGS = $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_hints_LDADD = libadl_common.la
tests_fuzz_fuzz_cpus_SOURCES = tests/fuzz/fuzz_cpus.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_cpus_CPPFLAGS = $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_cpus_LDADD = libadl_common.la
tests_fuzz_fuzz_conf_SOURCES = tests/fuzz/fuzz_conf.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_conf_CPPFLAGS = $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_conf_LDADD = libadl_conf.la libadl_common.la

# what the tool gets from a controller
check_PROGRAMS += tests/fuzz/fuzz_answers
TESTS += tests/fuzz/fuzz_answers
tests_fuzz_fuzz_answers_SOURCES = tests/fuzz/fuzz_answers.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_answers_CPPFLAGS = $(FUZZ_CPPFLAGS) -I$(top_srcdir)/cli
tests_fuzz_fuzz_answers_CFLAGS = $(AM_CFLAGS) $(JSON_C_CFLAGS)
tests_fuzz_fuzz_answers_LDADD = $(ADL_CLI_LIBS)

# what the predictor takes: learned states, reports, tables, profiles
check_PROGRAMS += tests/fuzz/fuzz_predictor
TESTS += tests/fuzz/fuzz_predictor
tests_fuzz_fuzz_predictor_SOURCES = tests/fuzz/fuzz_predictor.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_predictor_CPPFLAGS = $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_predictor_LDADD = libadl_predictor.la libadl_common.la

# what users write for allocate and simulate
check_PROGRAMS += tests/fuzz/fuzz_whatif tests/fuzz/fuzz_trace
TESTS += tests/fuzz/fuzz_whatif tests/fuzz/fuzz_trace
tests_fuzz_fuzz_whatif_SOURCES = tests/fuzz/fuzz_whatif.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_whatif_CPPFLAGS = $(FUZZ_CPPFLAGS) -I$(top_srcdir)/ctld -I$(top_srcdir)/cli
tests_fuzz_fuzz_whatif_LDADD = $(ADL_CLI_LIBS)
tests_fuzz_fuzz_trace_SOURCES = tests/fuzz/fuzz_trace.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_trace_CPPFLAGS = $(FUZZ_CPPFLAGS) -I$(top_srcdir)/ctld -I$(top_srcdir)/cli
tests_fuzz_fuzz_trace_LDADD = $(ADL_CLI_LIBS)

# what adltrain reads: pictures and indexes of packs
check_PROGRAMS += tests/fuzz/fuzz_samples
TESTS += tests/fuzz/fuzz_samples
tests_fuzz_fuzz_samples_SOURCES = tests/fuzz/fuzz_samples.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_samples_CPPFLAGS = $(FUZZ_CPPFLAGS) -I$(top_srcdir)/workload
tests_fuzz_fuzz_samples_LDADD = $(WORKLOAD_LIBS)

# With libFuzzer: everything is compiled anew, since the code under test has to be instrumented.
FUZZ_CC = clang
FUZZ_FLAGS = -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
FUZZ_COMMON = cpus.c wire.c msg.c hints.c log.c clock.c conf.c conf_keys.c hostlist.c
LIBFUZZER_TARGETS = fuzz-frames fuzz-hints fuzz-cpus fuzz-conf
CLEANFILES += $(LIBFUZZER_TARGETS)

fuzz: $(LIBFUZZER_TARGETS)
$(LIBFUZZER_TARGETS):
	$(AM_V_GEN)$(FUZZ_CC) $(FUZZ_FLAGS) $(DEFAULT_INCLUDES) $(FUZZ_CPPFLAGS) $(INIH_CFLAGS) -o $@ \
	    $(srcdir)/tests/fuzz/`echo $@ | tr - _`.c $(srcdir)/tests/unit/msg_samples.c \
	    `for file in $(FUZZ_COMMON); do echo $(srcdir)/common/$$file; done` $(INIH_LIBS) -lm
.PHONY: fuzz $(LIBFUZZER_TARGETS)
