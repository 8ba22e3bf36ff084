"""From a certificate to a principal: the subject as Java prints it, and Kafka's rules over that text. PURE."""
