# man/: manual pages, linted and compared with the programs by tests/unit/man.sh.
dist_man_MANS += man/adloader.1 man/adloader-allocate.5 man/adloader-trace.5 man/adltrain.1 man/adloader.conf.5 man/adloader.7 \
	man/adloaderctld.8 man/spank_adloader.8
