#!/usr/bin/env bash
# `deepnmt generate`: translations of a subset of a data folder, beside their references.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt generate "$@"
