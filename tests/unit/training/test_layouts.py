"""What environments say of their maps, for those who draw them."""

from optimist.training import environments
from optimist.training.environments.protocol import Mapped


def layout_of(env, **options):
    pool = environments.make(env, n_envs=1, **options)
    pool.reset(0)
    try:
        return pool.layout() if isinstance(pool, Mapped) else None
    finally:
        pool.close()


def test_the_sea_is_a_triangle_from_the_start_to_the_treasure():
    assert layout_of("DeepSea-4") == ("S###", "..##", "...#", "...G")


def test_a_lake_has_its_holes():
    rows = layout_of("FrozenLake-8x8")
    assert (rows[0], rows[-1]) == ("S..H...H", ".H.....G")


def test_a_fixed_level_of_minigrid_has_walls_doors_start_and_goal_and_other_levels_have_no_one_map():
    rows = layout_of("MiniGrid-MultiRoom-N4-S5-v0", options={"level": 0})
    cells = "".join(rows)
    assert {len(row) for row in rows} == {25}
    assert (cells.count("S"), cells.count("G")) == (1, 1)
    assert cells.count("D") >= 3
    assert cells.count("#") > 30
    assert layout_of("gymnasium:MiniGrid-MultiRoom-N4-S5-v0") is None
    assert layout_of("CartPole-v1") is None
