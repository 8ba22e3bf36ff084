#!/bin/sh
# Python, for the processes that Spark starts. Spark names its own copy of PySpark first, and for data sources twice: zip files without
# bytecode, which each of these processes would compile anew. The same is installed beside this package, which QUORUM_PIPELINE_PYTHON runs.
set -f
IFS=:
path=
for each in ${PYTHONPATH-}; do
    case $each in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) path=$path${path:+:}$each ;;
    esac
done
unset IFS
[ -z "${PYTHONPATH+set}" ] || export PYTHONPATH="$path"
# Blocks of records need as much memory, one after the other: what is given back is asked for again at once, and cleared each time.
: "${MALLOC_MMAP_THRESHOLD_=1073741824}" "${MALLOC_TRIM_THRESHOLD_=1073741824}" "${MALLOC_TOP_PAD_=67108864}" "${MIMALLOC_PURGE_DELAY=-1}"
export MALLOC_MMAP_THRESHOLD_ MALLOC_TRIM_THRESHOLD_ MALLOC_TOP_PAD_ MIMALLOC_PURGE_DELAY
exec "$QUORUM_PIPELINE_PYTHON" "$@"
