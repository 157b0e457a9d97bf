"""seed brands and cities with their spellings

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

from services.review import seeds
from services.review.fold import fold, fold_city

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    brands = seeds.folded("brands", fold)
    ids = _insert_names(connection, _table("brands", "name", "root_id"), brands)
    _insert_aliases(connection, _table("brand_aliases", "folded", "brand_id", "alias"), brands, ids)
    cities = seeds.folded("cities", fold_city)
    ids = _insert_names(connection, _table("cities", "name", "root_id", "known"), cities, known=True)
    _insert_aliases(connection, _table("city_aliases", "folded", "city_id", "alias"), cities, ids)


def _table(name, *columns):
    return sa.table(name, sa.column("id"), *map(sa.column, columns), schema="review")


def _insert_names(connection, table, entries, **more):
    rows = [{"name": name, "root_id": 0, **more} for name, _ in entries]
    ids = connection.execute(sa.insert(table).values(rows).returning(table.c.id, table.c.name)).all()
    connection.execute(sa.update(table).where(table.c.root_id == 0).values(root_id=table.c.id))
    return {name: row_id for row_id, name in ids}


def _insert_aliases(connection, table, entries, ids):
    owner = next(column.name for column in table.c if column.name.endswith("_id"))
    rows = [
        {"folded": folded, owner: ids[name], "alias": alias}
        for name, aliases in entries
        for folded, alias in aliases.items()
    ]
    connection.execute(sa.insert(table).values(rows))


def downgrade() -> None:
    for table in ("city_aliases", "brand_aliases", "cities", "brands"):
        op.execute(sa.delete(_table(table)))
