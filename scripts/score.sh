#!/usr/bin/env bash
# `deepnmt score`: score translations.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt score "$@"
