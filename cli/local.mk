# cli/: the adloader tool, one file a subcommand; cli.h says how to add one. All but main() is a
# library, for the tests. It links what of the plugin does not know SPANK, for adloader doctor.
noinst_LTLIBRARIES += libadl_cli.la
libadl_cli_la_SOURCES = \
	cli/cli.c cli/cli.h \
	cli/client.c cli/client.h \
	cli/command.c cli/command.h \
	cli/doc.c cli/doc.h \
	cli/doctor.c cli/doctor.h cli/doctor_control.c cli/doctor_node.c cli/doctor_plugin.c \
	cli/doctor_slurm.c cli/elfword.c cli/elfword.h cli/plugstack.c cli/plugstack.h \
	cli/strict.c cli/strict.h \
	cli/number.c cli/number.h \
	cli/suggest.c cli/suggest.h \
	cli/table.c cli/table.h \
	cli/words.c cli/words.h \
	cli/status.c cli/status.h \
	cli/explain.c cli/explain.h \
	cli/allocate.c cli/whatif.c cli/whatif.h \
	cli/simulate.c cli/sim.c cli/sim.h cli/trace.c cli/trace.h cli/generate.c cli/svg.c cli/svg.h \
	cli/predict.c cli/curveout.c cli/curveout.h cli/profile.c \
	cli/calibrate.c cli/cal.h cli/cal_gpu.c cli/cal_jpeg.c cli/cal_memory.c cli/cal_storage.c cli/cal_threads.c \
	cli/report.c cli/sacct.c cli/sacct.h \
	cli/top.c \
	cli/topology.c
libadl_cli_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/ctld -I$(top_srcdir)/cli -I$(top_srcdir)/spank \
	-DADL_PKGLIBEXECDIR='"$(pkglibexecdir)"'
libadl_cli_la_CFLAGS = $(AM_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS) $(JPEG_CFLAGS)
ADL_CLI_LIBS = libadl_cli.la libadl_record.la libadl_ctld.la libadl_alloc.la libadl_predictor.la libadl_file.la libadl_spank.la libadl_conf.la libadl_common.la \
	$(JSON_C_LIBS) $(MUNGE_LIBS) $(JPEG_LIBS)

bin_PROGRAMS += adloader
adloader_SOURCES = cli/main.c
adloader_CPPFLAGS = $(libadl_cli_la_CPPFLAGS)
adloader_CFLAGS = $(libadl_cli_la_CFLAGS)
adloader_LDADD = $(ADL_CLI_LIBS)

# Measures GPUs for adloader calibrate; a program of its own, so that the tool needs no CUDA.
if HAVE_CUDA
pkglibexec_PROGRAMS += adloader-calibrate-gpu
adloader_calibrate_gpu_SOURCES = cli/calibrate_gpu.c
adloader_calibrate_gpu_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS)
adloader_calibrate_gpu_LDADD = libadl_common.la $(NCCL_LIBS) $(CUDA_LIBS)
else
EXTRA_DIST += cli/calibrate_gpu.c
endif
