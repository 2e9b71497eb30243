#!/usr/bin/env bash
# `deepnmt iterate`: back-translation or distillation in rounds, whose models make text for the next round's.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt iterate "$@"
