#!/usr/bin/env bash
# `deepnmt train-progressive`: train, grow and train a model, stage by stage.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt train-progressive "$@"
