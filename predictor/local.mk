# predictor/: throughput curves; a pure library.
noinst_LTLIBRARIES += libadl_predictor.la
libadl_predictor_la_SOURCES = predictor/predictor.h predictor/terms.h predictor/track.h \
	predictor/comm.c predictor/compute.c predictor/curve.c predictor/io.c predictor/knee.c \
	predictor/learner.c predictor/learner_state.c predictor/loader.c predictor/membw.c \
	predictor/names.c predictor/overlap.c predictor/static.c predictor/track.c
