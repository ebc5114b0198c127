a: {{ nosuch.x }}
