#!/usr/bin/env bash
# `deepnmt truecase`: give the first words of sentences the case that they mostly have elsewhere, and the way back.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt truecase "$@"
