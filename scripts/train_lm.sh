#!/usr/bin/env bash
# `deepnmt train-lm`: train a language model on one side of a data folder.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt train-lm "$@"
