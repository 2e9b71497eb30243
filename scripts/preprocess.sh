#!/usr/bin/env bash
# `deepnmt preprocess`: raw parallel text to the binarised data that fairseq reads.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt preprocess "$@"
