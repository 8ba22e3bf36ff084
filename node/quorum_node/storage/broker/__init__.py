"""The partitions of a broker on disk, in the file formats of a stock Kafka broker, so that each can
take over the other's directory.
"""
