# etc/: example configuration, the systemd unit and the run directory. The templates get the
# directories of this build.
examplesdir = $(docdir)/examples
tmpfilesdir = $(prefix)/lib/tmpfiles.d
examples_DATA = etc/adloader.conf.example etc/plugstack.conf.example
systemdunit_DATA = etc/adloaderctld.service
tmpfiles_DATA = etc/tmpfiles.d/adloader.conf
ETC_TEMPLATES = etc/adloader.conf.example.in etc/plugstack.conf.example.in \
	etc/adloaderctld.service.in etc/adloader.tmpfiles.in
EXTRA_DIST += $(ETC_TEMPLATES)
CLEANFILES += $(examples_DATA) $(systemdunit_DATA) $(tmpfiles_DATA)

ETC_FILL = $(AM_V_GEN)$(MKDIR_P) $(@D) && $(SED) -e 's,@sbindir[@],$(sbindir),g' \
	-e 's,@sysconfdir[@],$(sysconfdir),g' -e 's,@rundir[@],$(rundir),g' \
	-e 's,@plugindir[@],$(plugindir),g'

etc/adloader.conf.example: etc/adloader.conf.example.in Makefile
	$(ETC_FILL) $(srcdir)/etc/adloader.conf.example.in > $@.new && mv $@.new $@
etc/plugstack.conf.example: etc/plugstack.conf.example.in Makefile
	$(ETC_FILL) $(srcdir)/etc/plugstack.conf.example.in > $@.new && mv $@.new $@
etc/adloaderctld.service: etc/adloaderctld.service.in Makefile
	$(ETC_FILL) $(srcdir)/etc/adloaderctld.service.in > $@.new && mv $@.new $@
etc/tmpfiles.d/adloader.conf: etc/adloader.tmpfiles.in Makefile
	$(ETC_FILL) $(srcdir)/etc/adloader.tmpfiles.in > $@.new && mv $@.new $@
