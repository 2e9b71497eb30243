#!/usr/bin/env bash
# `deepnmt synthesise`: make synthetic pairs by translating text back or forward, by copying it, or by a teacher.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt synthesise "$@"
