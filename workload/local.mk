# workload/: adltrain, the reference training job.
bin_PROGRAMS += adltrain
adltrain_SOURCES = workload/main.c
adltrain_CFLAGS = $(AM_CFLAGS) $(JPEG_CFLAGS) $(JSON_C_CFLAGS)
adltrain_LDADD = libadloader.la $(JPEG_LIBS) $(JSON_C_LIBS) $(PTHREAD_FLAGS)
