# predictor/: throughput curves; a pure library.
noinst_LTLIBRARIES += libadl_predictor.la
libadl_predictor_la_SOURCES = predictor/predictor.h predictor/terms.h predictor/track.h \
	predictor/correction.h predictor/physics.h predictor/solve.h predictor/steptime.h \
	predictor/comm.c predictor/compute.c predictor/correction.c predictor/curve.c predictor/fit.c \
	predictor/io.c predictor/knee.c predictor/learner.c predictor/learner_state.c \
	predictor/loader.c predictor/membw.c predictor/names.c predictor/overlap.c \
	predictor/physics.c predictor/solve.c predictor/static.c predictor/steptime.c \
	predictor/straggler.c predictor/track.c
