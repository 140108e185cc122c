# man/: manual pages, linted by tests/unit/man.sh.
dist_man_MANS +=
