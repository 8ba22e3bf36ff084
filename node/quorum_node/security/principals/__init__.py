"""From a certificate to a principal: the subject in Java's text form, and Kafka's mapping rules. PURE."""
