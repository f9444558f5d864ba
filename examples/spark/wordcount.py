"""How often each word of a text occurs: wordcount.py TEXT. The last line that the driver prints is RESULT and JSON.

An application of Spark like any other; nothing in it knows of Kubernetes or of a scheduler.
"""

import json
import sys
from operator import add

from pyspark.sql import SparkSession


def main(path: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    context = spark.sparkContext
    lines = context.textFile(path, 2 * int(context.getConf().get("spark.executor.instances", "2")))
    counts = (
        lines.flatMap(lambda line: line.lower().split()).map(lambda word: (word, 1)).reduceByKey(add).collectAsMap()
    )
    most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:3]
    print("RESULT", json.dumps({"words": sum(counts.values()), "distinct": len(counts), "most": most}), flush=True)
    spark.stop()


main(sys.argv[1])
