# workload/: adltrain, the reference training job.
bin_PROGRAMS += adltrain
noinst_LTLIBRARIES += libadl_workload.la
# all of adltrain but its main(), so that tests link it too
libadl_workload_la_SOURCES = \
	workload/augment.c workload/augment.h \
	workload/batches.c workload/batches.h \
	workload/dataset.c workload/dataset.h \
	workload/feed.c workload/feed.h \
	workload/files.c workload/files.h \
	workload/gpu.h workload/gpu_emulated.c workload/gpu_module.c \
	workload/gpu_plan.c workload/gpu_plan.h \
	workload/gpu_rank.c workload/gpu_rank.h \
	workload/jpeg.c workload/jpeg.h \
	workload/little.h workload/loader.c workload/loader.h \
	workload/monitor.c workload/monitor.h \
	workload/named.c workload/named.h \
	workload/options.c workload/options.h \
	workload/pack.c workload/pack.h \
	workload/picture.c workload/picture.h \
	workload/progress.c workload/progress.h \
	workload/raw.c workload/raw.h \
	workload/record.c workload/record.h \
	workload/ring.c workload/ring.h \
	workload/rng.h \
	workload/sampler.c workload/sampler.h \
	workload/store.c workload/store.h \
	workload/summary.c workload/summary.h \
	workload/throttle.c workload/throttle.h \
	workload/tokens.c workload/tokens.h \
	workload/trainer.c workload/trainer.h \
	workload/usage.c workload/usage.h \
	workload/workers.c workload/workers.h \
	workload/world.c workload/world.h
libadl_workload_la_LIBADD = libadl_file.la
libadl_workload_la_CPPFLAGS = $(AM_CPPFLAGS) -DADL_PKGLIBDIR='"$(pkglibdir)"'
libadl_workload_la_CFLAGS = $(AM_CFLAGS) $(JPEG_CFLAGS) $(JSON_C_CFLAGS)
WORKLOAD_LIBS = libadl_workload.la libadloader.la libadl_predictor.la libadl_conf.la libadl_common.la \
	$(JPEG_LIBS) $(JSON_C_LIBS) $(INIH_LIBS) $(PTHREAD_FLAGS)
adltrain_SOURCES = workload/main.c
adltrain_LDADD = $(WORKLOAD_LIBS)

# adltrain --gpu=cuda: a module that adltrain loads when it is asked for, so that it needs no CUDA itself.
if HAVE_CUDA
pkglib_LTLIBRARIES += adltrain_cuda.la
adltrain_cuda_la_SOURCES = workload/gpu_cuda.c workload/gpu_nccl.c workload/gpu_nccl.h \
	workload/gpu_plan.c workload/gpu_plan.h workload/gpu.h
adltrain_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS)
adltrain_cuda_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
adltrain_cuda_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared
adltrain_cuda_la_LIBADD = libadl_common.la $(NCCL_LIBS) $(CUDA_LIBS)
else
EXTRA_DIST += workload/gpu_cuda.c workload/gpu_nccl.c workload/gpu_nccl.h
endif
EXTRA_DIST += workload/series workload/series-job.sh workload/series-report.sh workload/series-resize.sh workload/resize-watch.py workload/gpu-check \
	workload/series-metrics.awk workload/series-plot.awk workload/series-light.txt workload/series-medium.txt \
	workload/series-heavy.txt workload/series-hungry.txt workload/series-sixteen.txt workload/series-two-cores.txt
