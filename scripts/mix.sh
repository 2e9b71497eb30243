#!/usr/bin/env bash
# `deepnmt mix`: join real and synthetic pairs to one data folder.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt mix "$@"
