"""How closely ACB follows the exact elliptical bonus: this project's own measure of truth."""
