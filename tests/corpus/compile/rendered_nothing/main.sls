{% if False %}x{% endif %}
