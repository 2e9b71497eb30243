#!/usr/bin/env bash
# `deepnmt binarise`: more text for an existing data folder.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt binarise "$@"
