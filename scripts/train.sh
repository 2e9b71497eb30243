#!/usr/bin/env bash
# `deepnmt train`: train the model of a recipe.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt train "$@"
