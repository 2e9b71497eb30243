#!/usr/bin/env bash
# `deepnmt ngram`: estimate an n-gram language model, or score a text by one.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt ngram "$@"
