# workload/: adltrain, the reference training job.
bin_PROGRAMS += adltrain
noinst_LTLIBRARIES += libadl_workload.la
# all of adltrain but its main(), so that tests link it too
libadl_workload_la_SOURCES = \
	workload/augment.c workload/augment.h \
	workload/batches.c workload/batches.h \
	workload/dataset.c workload/dataset.h \
	workload/files.c workload/files.h \
	workload/gpu.c workload/gpu.h \
	workload/jpeg.c workload/jpeg.h \
	workload/loader.c workload/loader.h \
	workload/monitor.c workload/monitor.h \
	workload/options.c workload/options.h \
	workload/picture.c workload/picture.h \
	workload/progress.c workload/progress.h \
	workload/record.c workload/record.h \
	workload/ring.c workload/ring.h \
	workload/rng.h \
	workload/sampler.c workload/sampler.h \
	workload/summary.c workload/summary.h \
	workload/trainer.c workload/trainer.h \
	workload/workers.c workload/workers.h \
	workload/world.c workload/world.h
libadl_workload_la_CFLAGS = $(AM_CFLAGS) $(JPEG_CFLAGS) $(JSON_C_CFLAGS)
WORKLOAD_LIBS = libadl_workload.la libadloader.la libadl_conf.la libadl_common.la \
	$(JPEG_LIBS) $(JSON_C_LIBS) $(INIH_LIBS) $(PTHREAD_FLAGS)
adltrain_SOURCES = workload/main.c
adltrain_LDADD = $(WORKLOAD_LIBS)
EXTRA_DIST += workload/series workload/series-job.sh workload/series-report.sh workload/series-resize.sh \
	workload/series-metrics.awk workload/series-plot.awk workload/series-mixed.txt \
	workload/series-hungry.txt workload/series-pairs.txt workload/series-two-cores.txt
