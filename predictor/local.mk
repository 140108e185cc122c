# predictor/: throughput curves; a pure library, and the tables of models and GPUs that it reads.
noinst_LTLIBRARIES += libadl_predictor.la
libadl_predictor_la_LIBADD = libadl_file.la
libadl_predictor_la_SOURCES = predictor/predictor.h predictor/terms.h predictor/track.h \
	predictor/calibration.h predictor/correction.h predictor/declared.h predictor/known.h predictor/loaderfit.h predictor/names_near.h predictor/physics.h \
	predictor/keyvalue.h predictor/profile.h predictor/profile_text.h \
	predictor/solve.h predictor/steptime.h predictor/tables.h \
	predictor/calibration.c predictor/comm.c predictor/compute.c predictor/correction.c \
	predictor/curve.c predictor/declared.c predictor/fit.c \
	predictor/io.c predictor/keyvalue.c predictor/knee.c predictor/known.c predictor/learned.c predictor/learner.c predictor/learner_state.c \
	predictor/loader.c predictor/loaderfit.c predictor/membw.c predictor/names.c \
	predictor/names_near.c predictor/overlap.c predictor/physics.c predictor/profile.c \
	predictor/profile_store.c predictor/solve.c \
	predictor/static.c predictor/steptime.c predictor/straggler.c predictor/tables.c \
	predictor/track.c
dist_pkgdata_DATA += predictor/models.csv predictor/gpus.csv
