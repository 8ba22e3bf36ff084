#!/bin/sh
# Python, for the processes that Spark starts. Spark names its own copy of PySpark first, zip files without bytecode, which each of
# these processes would compile anew: half a second. The same is installed beside this package, which QUORUM_PIPELINE_PYTHON runs.
case ${PYTHONPATH-} in
*/pyspark.zip:*-src.zip:*)
    PYTHONPATH=${PYTHONPATH#*/pyspark.zip:}
    PYTHONPATH=${PYTHONPATH#*-src.zip:}
    export PYTHONPATH
    ;;
esac
exec "$QUORUM_PIPELINE_PYTHON" "$@"
