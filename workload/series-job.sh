#!/bin/bash
# The batch script of one job of a series: one srun step, its start, end and exit status in a file of
# their own. Environment: SERIES_STEP (words for srun), SERIES_TRAIN (the command), SERIES_FILE.
set -u
begin=$EPOCHREALTIME
# shellcheck disable=SC2086 # words
srun $SERIES_STEP $SERIES_TRAIN >"$SERIES_FILE.log" 2>&1
status=$?
printf '%s\t%s\t%s\n' "$begin" "$EPOCHREALTIME" "$status" >"$SERIES_FILE.end.new"
mv "$SERIES_FILE.end.new" "$SERIES_FILE.end"
