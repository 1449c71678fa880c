#!/usr/bin/env bash
# Calls of tools by a released model in the syntax of each format that zinc finds by a template: their arguments are judged
# by Python's jsonschema, and a stream makes the same as a whole answer. The model was trained for none of these formats;
# copies of it have their templates, and their marks in the place of tokens for source code.
. tests/real/lib.sh
. tests/e2e/serve.sh
need_real model
need_real schemas
templates=${ZINC_SHARED:-../shared}/templates

# calls FORMAT TEMPLATE: the released template if it is here, else a text of ours with the same marks
calls()
{
    local file=$work/$1.gguf template=$templates/$2.jinja
    [ -f "$template" ] || { template=-; echo "$1: no $2.jinja in $templates, so a template of ours"; }
    "$real_python" tests/real/schemas.py vocabulary "$real_model" "$file" "$1" "$template" || {
        miss "$1: vocabulary"
        return
    }
    serve "$1" -m "$file" --tier cpu --ctx 2048 --slots 5 --queue 64 --quiet || return
    "$real_python" tests/real/schemas.py calls "$url" "$1" || miss "$1: calls against jsonschema: above"
    serve_end "$1" $pid
    rm -f "$file"
}
calls hermes NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use
calls qwen3 Qwen-Qwen3-0.6B
calls qwen3-coder Qwen3-Coder
calls qwen3.5 Qwen3.5-4B
calls llama3.1 meta-llama-Llama-3.1-8B-Instruct
calls gpt-oss openai-gpt-oss-120b
calls gemma4 google-gemma-4-31B-it
finish
