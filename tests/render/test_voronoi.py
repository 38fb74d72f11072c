"""Shards are a true partition of the block they break from."""

from __future__ import annotations

import numpy as np
import pytest

from visualizer.render import geometry, voronoi


@pytest.mark.parametrize("seed", range(4))
def test_cells_fill_the_box_exactly(seed: int) -> None:
    cells = voronoi.polyhedra(voronoi.sites(seed, 48))
    volumes = [voronoi.volume(cell) for cell in cells]
    assert min(volumes) > 0
    assert sum(volumes) == pytest.approx(8, abs=1e-9)


def test_a_cell_is_nearer_to_its_own_centre_than_to_any_other() -> None:
    centres = voronoi.sites(1, 48)
    for index, cell in enumerate(voronoi.polyhedra(centres)):
        corners = np.array([corner for corners, _ in cell for corner in corners])
        away = np.linalg.norm(corners[:, None] - centres[None], axis=2)
        assert (away[:, index] <= away.min(axis=1) + 1e-9).all()


def test_fracture_faces_lie_inside_and_the_rest_on_the_box() -> None:
    shards = voronoi.shards(2)
    corners = shards["middle"] + shards["offset"]
    on_box = np.abs(np.abs(corners).max(axis=1) - 1) < 1e-5
    outside = shards["kind"][:, 1] == 0
    assert on_box[outside].all()
    assert len(np.unique(shards["kind"][:, 0])) == voronoi.CELLS
    triangles = corners[outside].reshape(-1, 3, 3).astype(float)
    sides = triangles[:, 1:] - triangles[:, :1]
    area = np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1).sum() / 2
    assert area == pytest.approx(24, abs=1e-4)


def test_faces_point_outwards() -> None:
    shards = voronoi.shards(0)
    assert ((shards["offset"] * shards["face"]).sum(axis=1) > 0).all()
    corners = shards["offset"].reshape(-1, 3, 3)
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert ((area * shards["face"].reshape(-1, 3, 3)[:, 0]).sum(axis=1) > -1e-6).all()


def test_the_same_seed_breaks_the_same_way() -> None:
    assert voronoi.shards(3).tobytes() == voronoi.shards(3).tobytes()
    assert voronoi.shards(3).tobytes() != voronoi.shards(2).tobytes()


@pytest.mark.parametrize("mesh", [geometry.rounded_box(2), geometry.sphere(12)])
def test_meshes_face_outwards(mesh: geometry.Mesh) -> None:
    names = mesh.vertices.dtype.names
    place = mesh.vertices["direction" if "direction" in names else "normal"]
    if "corner" in names:
        place = 0.5 * mesh.vertices["corner"] + 0.1 * place
    corners = place[mesh.indices].reshape(-1, 3, 3)
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert ((area * corners.mean(axis=1)).sum(axis=1) >= -1e-7).all()
