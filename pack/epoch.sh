#!/bin/sh
# pack/epoch.sh: the second that packages are dated with: SOURCE_DATE_EPOCH, or that of the changelog's newest entry.
set -e
[ -n "$SOURCE_DATE_EPOCH" ] || SOURCE_DATE_EPOCH=$(date -d "$(sed -nE 's/^ -- .*>  //p' "$(dirname "$0")/deb/changelog" | head -n 1)" +%s)
echo "$SOURCE_DATE_EPOCH"
