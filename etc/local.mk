# etc/: example configuration and the systemd unit.
EXTRA_DIST +=
