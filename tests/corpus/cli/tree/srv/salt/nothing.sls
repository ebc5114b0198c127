{# renders to nothing #}
