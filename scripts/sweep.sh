#!/usr/bin/env bash
# `deepnmt sweep`: BLEU on the validation set over averages of checkpoints, beams and length penalties.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt sweep "$@"
