#!/usr/bin/env bash
# `deepnmt finetune`: train a model further on other data.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt finetune "$@"
