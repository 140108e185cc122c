# predictor/: throughput curves; a pure library.
noinst_LTLIBRARIES += libadl_predictor.la
libadl_predictor_la_SOURCES = predictor/predictor.h predictor/curve.c
