#!/usr/bin/env bash
# `deepnmt bleu-per-depth`: score a model with ever fewer of its layers.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt bleu-per-depth "$@"
